"""Blends frames in memory: copies large arrays, as image and video programs do.

Its time goes into the memory bus: every frame is larger than the caches.
"""

import sys

FRAME = 96 * 1024 * 1024


def main():
    frames = [bytearray(FRAME) for _ in range(3)]
    for step in range(int(sys.argv[1])):
        source, target = frames[step % 3], frames[(step + 1) % 3]
        target[:] = source
        target[step] = step % 256
    print(sum(frame[0] for frame in frames))


main()
