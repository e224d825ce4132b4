"""The prompt at a terminal: line editing, history, highlighting and tab completion (psql's prompt.c, input.c,
tab-complete.c). A script loads none of it but the prompt's text."""
