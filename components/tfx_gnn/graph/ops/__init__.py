"""Operations on graphs: broadcasting, pooling, readout, and changes to edges and structure."""
