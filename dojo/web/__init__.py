"""The page in the browser: statement, editor and verdict side by side; a view on the same records as the terminal."""
