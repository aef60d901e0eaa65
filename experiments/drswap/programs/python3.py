"""Reads a dictionary of records repeatedly: each read of an object changes its reference count."""
records = {}
for number in range(30000):
    records["key%d" % number] = (number, "value %d" % number, [number % 7, number % 11])
total = 0
for turn in range(6):
    for step in range(0, 30000, 3):
        record = records["key%d" % ((step * 7919 + turn) % 30000)]
        total += record[2][0] + len(record[1])
print(total)
