"""Work on an instance as a whole: VACUUM and autovacuum, work beside a follower's own, and what other writers have
defined in the lake."""
