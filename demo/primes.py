"""Counts primes by trial division: stays in the first-level cache."""

import sys


def is_prime(n):
    divisor = 3
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 2
    return n % 2 == 1


print(sum(is_prime(n) for n in range(3, int(sys.argv[1]))))
