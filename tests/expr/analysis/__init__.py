"""What expressions and queries mean, held to what PostgreSQL 17 says of them."""
