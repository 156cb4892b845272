//! What the SDK does with values, errors, rows, JSON and full buffers.

use millrace::prelude::*;
use millrace::testing::{Cell, Harness, Input};
use millrace::{Codec, Row};

codec! {
    /// A state with every kind of field.
    pub struct All { pub a: u8, pub b: i16, pub c: bool, pub d: f64, pub e: [u8; 3], pub f: u64 }
}

millrace::module! {
    name: "sdk",
    process states keyed {
        on_record: states,
        states: { all: Value<All>, last: Value<Bounded<4>>, list: List<All>, map: Map<i64, u64>, long: Value<String> },
    },
    map json { on_record: json },
    map rows { on_record: rows, input: { n: int64, s: string }, output: { s: string, n: int64, f: float64, b: bool, x: bytes } },
    filter odd { on_record: odd },
    map pieces { on_record: pieces, side_outputs: [other] },
    process unkeyed { on_record: unkeyed },
    process timed keyed { on_record: timed, on_timer: on_timer, side_outputs: [one, two], timers: [processing] },
}

fn states(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let text = rec.text()?;
    if text == "too long" {
        return states::last.set(ctx, &Bounded::new(text.as_bytes()).ok_or_else(|| Error::msg("no room"))?);
    }
    let n = states::all.get(ctx)?.map_or(0, |a| a.f) + 1;
    let all = All { a: 1, b: -2, c: true, d: 0.5, e: *b"xyz", f: n };
    states::all.set(ctx, &all)?;
    states::list.append(ctx, &all)?;
    states::map.put(ctx, &-(n as i64), &n)?;
    states::long.set(ctx, &text.repeat(1000))?;
    if text == "fail" {
        bail!("failed at {n}");
    }
    let mut keys = Vec::new();
    states::map.scan(ctx, |k, v| {
        keys.push((k, v));
        Ok(keys.len() < 2)
    })?;
    let mut elements = 0;
    states::list.for_each(ctx, |a| {
        assert_eq!(a.e, *b"xyz");
        elements += 1;
        Ok(())
    })?;
    let long = states::long.get(ctx)?.unwrap_or_default().len();
    ctx.emit().text(format_args!("{n} {keys:?} {elements} {long}"))
}

/// The value in two pieces, cut where its first byte says; the second byte says what changes.
fn pieces(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let v = rec.value().unwrap_or_default();
    let (a, b) = v.split_at(v[0] as usize);
    let (changed, key) = (a.iter().map(|x| x ^ 0x55).collect::<Vec<u8>>(), b);
    match v[1] {
        0 => ctx.emit().parts(&[&changed, b]),
        1 => ctx.emit().key(key).time(5).op(Op::Delete).to(pieces::other).parts(&[b, &changed]),
        _ => ctx.emit().key(None).value(b),
    }
}

#[test]
fn outputs_of_every_length_are_whole() {
    for space in [64 << 10, 5000] {
        let mut h = Harness::new(&MODULE, "pieces").output_space(space);
        let (mut sent, mut want) = (Vec::new(), Vec::new());
        for n in 2..300usize {
            for how in 0..3u8 {
                let cut = 2 + (n * 7 + how as usize) % (n - 1).min(250);
                let mut v: Vec<u8> = (0..n).map(|i| (i * 31 + n) as u8).collect();
                (v[0], v[1]) = (cut.min(n) as u8, how);
                let key: Vec<u8> = (0..n % 140).map(|i| (i * 7 + n) as u8).collect();
                let (a, b) = v.split_at(v[0] as usize);
                let a: Vec<u8> = a.iter().map(|x| x ^ 0x55).collect();
                want.push(match how {
                    0 => (0, Some(key.clone()), 1, [&a[..], b].concat()),
                    1 => (1, Some(b.to_vec()), 5, [b, &a[..]].concat()),
                    _ => (0, None, 1, b.to_vec()),
                });
                sent.push(Input::value(&v).key(&key).time(1).header("h", None));
            }
        }
        h.send_batch(&sent);
        let got: Vec<_> =
            h.outputs().into_iter().map(|o| (o.output, o.record.key, o.record.time, o.record.value)).collect();
        let want: Vec<_> = want.into_iter().map(|(o, k, t, v)| (o, k, t, Some(v))).collect();
        assert!(got == want, "{space}");
    }
}

#[test]
fn states_of_a_failed_record_are_as_before() {
    let mut h = Harness::new(&MODULE, "states");
    h.send_batch(&["a", "b", "fail", "c", "too long"].map(|v| Input::value(v).key("k")));
    assert_eq!(h.texts(), ["1 [(-1, 1)] 1 1000", "2 [(-2, 2), (-1, 1)] 2 1000", "3 [(-3, 3), (-2, 2)] 3 1000"]);
    let messages: Vec<String> = h.failures().into_iter().map(|f| f.message).collect();
    assert_eq!(messages, ["failed at 3", "no room"]);
}

#[test]
fn batches_do_not_change_what_comes_out() {
    let records: Vec<Input> =
        (0..50).map(|i| Input::value(if i % 7 == 3 { "fail" } else { "x" }).key([i % 3])).collect();
    let mut whole = Harness::new(&MODULE, "states");
    whole.send_batch(&records);
    let mut single = Harness::new(&MODULE, "states");
    records.iter().for_each(|r| single.send(r.clone()));
    let texts = whole.texts();
    assert_eq!(texts.len(), 43);
    assert_eq!(texts, single.texts());
}

#[test]
fn codecs() {
    let all = All { a: 1, b: -2, c: true, d: 0.5, e: *b"xyz", f: 7 };
    let bytes = all.with_bytes(|b| b.to_vec());
    assert_eq!(bytes, [&[1u8, 0xfe, 0xff, 1][..], &0.5f64.to_le_bytes(), b"xyz", &7u64.to_le_bytes()].concat());
    assert_eq!(All::decode(&bytes), Some(all));
    assert_eq!(All::decode(&bytes[1..]), None);
    let mut bad = bytes;
    bad[3] = 2;
    assert_eq!(All::decode(&bad), None);
}

fn json(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    ctx.emit().json(|o| {
        o.bytes("v", rec.value().unwrap_or(b""))
            .int("min", i64::MIN)
            .uint("max", u64::MAX)
            .bool("t", true)
            .null("z")
            .raw("a", "[1]");
        o.fixed("f0", 1250, 3).fixed("f1", -5, 3).fixed("f2", 0, 2).fixed("f3", i64::MIN, 1).fixed("f4", 7, 0);
        for f in [0.0, 1.0, -0.1, 1e-6, 9.5e-7, 1e20, 1e21, -1.5e300, f64::NAN, f64::INFINITY] {
            o.float("x", f);
        }
    })
}

/// The Go SDK's test has the same text.
#[test]
fn json_is_written_as_in_go() {
    let mut h = Harness::new(&MODULE, "json");
    h.send(Input::value(b"a\"\\\n\r\t\x01\x1f\x7f/\xc3\xa9\xff\xe2\x82\xe2\x82\xac"));
    assert_eq!(
        h.texts()[0],
        concat!(
            r#"{"v":"a\"\\\n\r\t\u0001\u001f"#,
            "\x7f/é\u{fffd}\u{fffd}\u{fffd}€",
            r#"","min":-9223372036854775808,"max":18446744073709551615,"t":true,"z":null,"a":[1],"#,
            r#""f0":1.250,"f1":-0.005,"f2":0.00,"f3":-922337203685477580.8,"f4":7,"#,
            r#""x":0,"x":1,"x":-0.1,"x":0.000001,"x":9.5e-7,"x":100000000000000000000,"x":1e+21,"x":-1.5e+300,"x":null,"x":null}"#
        )
    );
}

fn rows(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(rows::input::COUNT)?;
    ctx.emit().row(rows::output::COUNT, |o| {
        if let Some(n) = row.int(rows::input::n) {
            o.int(rows::output::n, n + 1).float(rows::output::f, n as f64 / 2.0).bool(rows::output::b, n > 0);
        }
        if let Some(s) = row.str(rows::input::s) {
            o.str(rows::output::s, s).bytes(rows::output::x, s.as_bytes());
        }
    })
}

#[test]
fn rows_in_and_out() {
    let mut h = Harness::new(&MODULE, "rows").output_space(5 << 10);
    let long = "y".repeat(9000); // more than the buffer
    h.send_batch(&[
        Input::row(&[Cell::Int(3), Cell::Str("é")]),
        Input::row(&[Cell::Null, Cell::Str(&long)]),
        Input::row(&[Cell::Int(-1), Cell::Null]),
        Input::value("short"),
    ]);
    let out = h.outputs();
    let row = |i: usize| Row::new(out[i].record.value.as_ref().unwrap(), 5).unwrap();
    assert_eq!(
        (row(0).str(0), row(0).int(1), row(0).float(2), row(0).bool(3), row(0).bytes(4)),
        (Some("é"), Some(4), Some(1.5), Some(true), Some("é".as_bytes()))
    );
    assert_eq!((row(1).str(0), row(1).int(1)), (Some(long.as_str()), None));
    assert_eq!((row(2).str(0), row(2).bool(3)), (None, Some(false)));
    assert_eq!(h.failures()[0].message, "row of 5 bytes, 24 expected before the variable part of 2 columns");
}

fn odd(_: &mut Ctx, rec: &Record) -> Result<bool> {
    Ok(rec.text()?.parse::<u64>()? % 2 == 1)
}

#[test]
fn filters_and_foreign_errors() {
    let mut h = Harness::new(&MODULE, "odd");
    h.send_batch(&["1", "2", "x", "3"].map(Input::value));
    assert_eq!(h.texts(), ["1", "3"]);
    assert_eq!(h.failures()[0].message, "invalid digit found in string");
}

fn unkeyed(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    match rec.text()? {
        "state" => states::all.get(ctx).map(|_| ()),
        "timer" => ctx.set_timer("t", 1),
        _ => states::map.put(ctx, &1, &1),
    }
}

#[test]
fn misuse_is_an_error_of_the_record() {
    let mut h = Harness::new(&MODULE, "unkeyed");
    h.send_batch(&["state", "timer", "map"].map(Input::value));
    let messages: Vec<String> = h.failures().into_iter().map(|f| f.message).collect();
    assert_eq!(messages[0], "state without a current key: the function is not keyed");
    assert!(messages[1].starts_with("timer_set: unknown state"), "{messages:?}");
    assert!(messages[2].starts_with("put: unknown state"), "{messages:?}");
}

fn timed(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let at = ctx.processing_time() + 10;
    ctx.set_timer_in(Domain::Processing, rec.text()?, at)?;
    ctx.log(Level::Warn, format_args!("set {at}"));
    ctx.count("set", 2);
    ctx.emit().to(timed::two).value(b"side")
}

fn on_timer(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    ctx.emit().to(timed::one).key("other").time(timer.time()).op(Op::UpdateAfter).value(timer.name().as_bytes())
}

#[test]
fn processing_timers_and_side_outputs() {
    let mut h = Harness::new(&MODULE, "timed");
    h.processing_time(5);
    h.send(Input::value("a").key("k").time(1));
    h.processing_time(14);
    assert_eq!(h.texts(), ["two: side"]);
    h.processing_time(15);
    let out = h.outputs();
    assert_eq!((out[0].output, out[0].record.time, out[0].record.op), (1, 15, Op::UpdateAfter));
    assert_eq!((h.logs()[0].text.as_str(), h.counter("set")), ("set 15", 2));
}
