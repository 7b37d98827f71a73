"""The rounds of requests and answers between blocks of seeds and the partitioned graph."""
