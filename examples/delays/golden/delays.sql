-- Bad spells of airports, one JSON line each, for DuckDB: gaps and islands over the departures of delayed flights.
-- It reads a table or view named flights and writes to the file in the variable output; see README.md.
-- Departures exactly two hours apart are one spell; a spell ends two hours after its last departure.
COPY (
    WITH delayed AS (
        SELECT origin, date, delay,
               coalesce(date - lag(date) OVER (PARTITION BY origin ORDER BY date) > INTERVAL 2 HOUR, true) AS starts
        FROM flights
        WHERE delay >= 60
    ),
    numbered AS (
        SELECT *, sum(starts::INT) OVER (PARTITION BY origin ORDER BY date RANGE UNBOUNDED PRECEDING) AS spell
        FROM delayed
    )
    SELECT '{"origin":"' || origin
        || '","window_start":' || epoch_ms(min(date))
        || ',"window_end":' || epoch_ms(max(date) + INTERVAL 2 HOUR)
        || ',"flights":' || count(*)
        || ',"minutes":' || sum(delay)::BIGINT
        || ',"worst":' || max(delay)
        || '}' AS line
    FROM numbered
    GROUP BY origin, spell
    ORDER BY line
) TO (getvariable('output')) (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\x01');
