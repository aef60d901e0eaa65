-- A table in memory that is filled once and read again and again.
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO t SELECT i, 'a name that is long enough to take some room ' || i, i * 7919 % 1000 FROM n;
CREATE INDEX by_amount ON t (amount);
SELECT sum(amount) FROM t WHERE name LIKE '%77%';
SELECT count(*), max(length(name)) FROM t WHERE amount BETWEEN 100 AND 300;
SELECT sum(amount) FROM t WHERE name LIKE '%31%';
SELECT count(*), max(length(name)) FROM t WHERE amount BETWEEN 500 AND 700;
