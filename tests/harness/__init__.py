"""What tests of several rooms stand on: instances to play statements in, publishers and subscribers, servers."""
