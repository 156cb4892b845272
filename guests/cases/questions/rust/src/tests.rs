use super::*;
use millrace::testing::{Cell, Harness, Input};
use millrace::Row;

const JAN1: i64 = 978_307_200_000; // 2001-01-01

fn row(key: &str, time: i64, cells: &[Cell]) -> Input {
    Input::row(cells).key(key).time(time)
}

#[test]
fn the_first_long_delay_of_a_day_by_departure_not_arrival() {
    let mut h = Harness::new(&MODULE, "first_delayed");
    let f = |at: i64, to: &'static str, delay| {
        row("ABE", JAN1 + at, &[Cell::Int(JAN1 + at), Cell::Str(to), Cell::Int(delay), Cell::Int(1)])
    };
    h.send_batch(&[
        f(5, "MCO", 200),
        f(1, "MDT", 179),
        f(3, "PIT", 180),
        f(3, "ORD", 999),
        f(4, "ATL", 500),
        f(DAY_MS, "ATL", 181),
    ]);
    h.watermark(JAN1 + DAY_MS - 2);
    assert!(h.outputs().is_empty());
    h.end();
    assert_eq!(
        h.texts(),
        [
            format!(r#"{{"origin":"ABE","day":11323,"time_ms":{},"destination":"ORD","delay":999}}"#, JAN1 + 3),
            format!(r#"{{"origin":"ABE","day":11324,"time_ms":{},"destination":"ATL","delay":181}}"#, JAN1 + DAY_MS)
        ]
    );
    assert_eq!((h.state_entries(), h.timers()), (0, 0));
}

#[test]
fn pairs_are_an_hour_to_two_apart() {
    let mut h = Harness::new(&MODULE, "pairs");
    let f = |min: i64, back| row("DAL", JAN1, &[Cell::Str("DAL"), Cell::Int(JAN1 + min * 60_000), Cell::Bool(back)]);
    h.send_batch(&[f(59, true), f(60, true), f(120, true), f(120, true), f(121, true), f(0, false), f(1, false)]);
    h.end();
    assert_eq!(h.texts(), [r#"{"destination":"DAL","pairs":6}"#]);
    assert_eq!((h.state_entries(), h.timers()), (0, 0));
}

#[test]
fn triples_are_of_neighbours_in_time() {
    let mut h = Harness::new(&MODULE, "triples");
    let f = |at: i64, delay| {
        row("ABI", JAN1 + at, &[Cell::Int(JAN1 + at), Cell::Str("DFW"), Cell::Int(delay), Cell::Int(1)])
    };
    h.send_batch(&[f(4, 50), f(2, 31), f(3, 40), f(1, 30), f(5, 50), f(6, 60)]);
    h.watermark(JAN1 + 3);
    h.send(f(4, 45));
    h.end();
    // 30 31 40 45 50 50 60: (31 40 45) and (40 45 50).
    assert_eq!(h.texts(), [r#"{"origin":"ABI","triples":2}"#]);
    assert_eq!((h.state_entries(), h.timers()), (0, 0));
}

#[test]
fn a_tie_for_the_worst_goes_to_the_earlier_flight() {
    let mut h = Harness::new(&MODULE, "worst");
    let start = JAN1 + HOUR_MS;
    let f = |at: i64, from: &'static str, delay| {
        row(
            "k",
            start + at,
            &[
                Cell::Int(start),
                Cell::Int(start + at),
                Cell::Str(from),
                Cell::Str("SLC"),
                Cell::Int(delay),
                Cell::Int(1),
            ],
        )
    };
    h.send_batch(&[f(9, "A", 7), f(5, "B", 8), f(4, "D", 8), f(4, "C", 8), f(1, "E", -3)]);
    h.end();
    assert_eq!(
        h.texts(),
        [format!(r#"{{"start_ms":{start},"time_ms":{},"origin":"C","destination":"SLC","delay":8}}"#, start + 4)]
    );
}

#[test]
fn ties_of_the_podium_go_by_name() {
    let mut h = Harness::new(&MODULE, "podium");
    let f = |origin: &'static str, n| {
        row("d", JAN1 + DAY_MS - 1, &[Cell::Int(JAN1 + DAY_MS), Cell::Str(origin), Cell::Int(n)])
    };
    h.send_batch(&[f("ORD", 5), f("DFW", 9), f("ATL", 5), f("LAX", 5)]);
    h.end();
    assert_eq!(
        h.texts(),
        [
            r#"{"day":11323,"rank":1,"origin":"DFW","flights":9}"#,
            r#"{"day":11323,"rank":2,"origin":"ATL","flights":5}"#,
            r#"{"day":11323,"rank":3,"origin":"LAX","flights":5}"#
        ]
    );
}

#[test]
fn months_and_buckets() {
    for (day, want) in [(0, 1), (-1, 12), (11_016, 2), (11_017, 3), (11_322, 12), (11_323, 1), (11_353, 1), (11_354, 2)]
    {
        assert_eq!(histogram::month(day), want, "day {day}");
    }
    let mut h = Harness::new(&MODULE, "buckets");
    h.send_batch(&[-16, -15, -1, 0, 14, 15].map(|d| Input::row(&[Cell::Int(JAN1), Cell::Int(d)])));
    let buckets: Vec<i64> = h
        .outputs()
        .iter()
        .map(|o| Row::new(o.record.value.as_deref().unwrap_or(&[]), 2).ok().and_then(|r| r.int(1)).unwrap_or(99))
        .collect();
    assert_eq!(buckets, [-2, -1, -1, 0, 0, 1]);
}
