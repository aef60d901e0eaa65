CREATE TABLE reading(id INTEGER PRIMARY KEY, station INTEGER, value REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600000)
INSERT INTO reading SELECT i, (i * 7919) % 9973, ((i * 104729) % 100003) / 7.0 FROM n;
CREATE INDEX by_station ON reading(station, value);
SELECT count(*), round(max(top), 3) FROM (SELECT station, max(value) AS top FROM reading GROUP BY station);
SELECT round(sum(a.value), 3) FROM reading a JOIN reading b ON b.id = (a.id * 31) % 600000 + 1 WHERE a.station % 3 = 0;
