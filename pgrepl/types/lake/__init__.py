"""How values are kept in a lake: the DuckLake, Spark and Arrow form of each type, and the forms that other DuckLake
writers have made; whole columns as texts and back."""
