"""Keys of the tables of a database: which are declared, which names and values tell, and what refers to what."""
