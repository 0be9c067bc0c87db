"""The dojo: katas of the modern language model, and a judge whose verdict is right."""
