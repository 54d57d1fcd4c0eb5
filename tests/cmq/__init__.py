"""The CMQ endpoint, asked as CMQ's clients ask."""
