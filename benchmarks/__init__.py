"""What is measured, beside what it is measured against: `make bench` prints one table, each line a ratio or a rate."""
