def confine(readable, memory): return []
