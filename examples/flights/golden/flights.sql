-- Flights and mean delay per origin airport per UTC day, one JSON line each, for DuckDB.
-- It reads a table or view named flights and writes to the file in the variable output; see README.md.
--
-- The mean is rounded half away from zero to three decimals, in integers, so that no floating point
-- is involved: with s the sum of the delays in minutes and n their number, the thousandths are
-- floor((2000*|s| + n) / (2*n)), with the sign of s unless that is 0.
COPY (
    WITH days AS (
        SELECT origin,
               strftime(date, '%Y-%m-%d') AS day,
               count(*) AS n,
               sum(delay)::BIGINT AS s
        FROM flights
        GROUP BY origin, strftime(date, '%Y-%m-%d')
    ),
    means AS (
        SELECT origin, day, n, s, (2000 * abs(s) + n) // (2 * n) AS thousandths
        FROM days
    )
    SELECT '{"origin":"' || origin
        || '","day":"' || day
        || '","flights":' || n
        || ',"mean_delay":'
        || CASE WHEN s < 0 AND thousandths > 0 THEN '-' ELSE '' END
        || (thousandths // 1000)
        || '.' || lpad((thousandths % 1000)::VARCHAR, 3, '0')
        || '}' AS line
    FROM means
    ORDER BY line
) TO (getvariable('output')) (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\x01');
