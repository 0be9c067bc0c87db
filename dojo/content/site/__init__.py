"""The site: what katas ask for and what the docs say, as static pages to read and search. Nothing of an answer."""
