"""Operations on graphs: broadcast and pool, readout, edges, structure."""
