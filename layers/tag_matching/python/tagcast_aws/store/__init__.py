"""The tables: typed rows in, conditional and transactional writes out, their streams, and what is kept beside them."""
