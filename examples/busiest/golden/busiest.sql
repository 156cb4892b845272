-- The five busiest airports of each UTC day, one JSON line each, for DuckDB.
-- It reads a table or view named flights and writes to the file in the variable output; see README.md.
-- Of airports with as many flights the one that is first in the alphabet comes first.
COPY (
    WITH counts AS (
        SELECT origin, date_trunc('day', date) AS day, count(*) AS n
        FROM flights
        GROUP BY ALL
    ),
    ranked AS (
        SELECT *, row_number() OVER (PARTITION BY day ORDER BY n DESC, origin) AS place
        FROM counts
    ),
    placed AS (
        SELECT place, epoch_ms(day) AS first, epoch_ms(day + INTERVAL 1 DAY) AS last,
               '{"origin":"' || origin || '","window_start":' || first || ',"window_end":' || last || ',"flights":' || n || '}' AS item
        FROM ranked
        WHERE place <= 5
    )
    SELECT '{"window_start":' || first || ',"window_end":' || last
        || ',"busiest":[' || string_agg(item, ',' ORDER BY place) || ']}' AS line
    FROM placed
    GROUP BY first, last
    ORDER BY line
) TO (getvariable('output')) (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\x01');
