"""The bundled tasks, one package each."""
