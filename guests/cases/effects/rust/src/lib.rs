//! Does what its records say: every effect a function can have, on demand.
//!
//! A value is commands separated by ";", run in order:
//!   set V, value, unset                         a prefetched value (at most 32 bytes)
//!   big N, biglen                               a value of N bytes, by host calls
//!   put K V, get K, del K, scan [FROM], empty   a map
//!   append V, list, unlist                      a list
//!   timer AT NAME, untimer AT NAME, ptimer AT NAME, unptimer AT NAME
//!   out T, side T, large N, many N, forward, tombstone, header K V
//!   log T, count NAME N, random, wm, now
//!   fail T, trap, spin, eat
//! Answers go to the main output as text. A timer answers "fired AT NAME at watermark W"; what stands
//! behind "do " in its name is run.

use millrace::prelude::*;

millrace::module! {
    name: "effects",
    process effects keyed {
        on_record: on_record,
        on_timer: on_timer,
        side_outputs: [side],
        states: {
            small: Value<Bounded<32>>,
            big: Value<Vec<u8>>,
            map: Map<str, String>,
            list: List<String>,
            runs: Value<u64>,
        },
        timers: [event, processing],
    },
}

fn on_record(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let n = effects::runs.get(ctx)?.unwrap_or(0) + 1;
    effects::runs.set(ctx, &n)?;
    run(ctx, Some(rec), rec.text()?)
}

fn on_timer(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let wm = ctx.watermark();
    say(ctx, format_args!("fired {} {} at watermark {wm}", timer.time(), timer.name()))?;
    match timer.name().strip_prefix("do ") {
        Some(commands) => run(ctx, None, commands),
        None => Ok(()),
    }
}

fn say(ctx: &mut Ctx, text: core::fmt::Arguments) -> Result<()> {
    ctx.emit().text(text)
}

fn run(ctx: &mut Ctx, rec: Option<&Record>, commands: &str) -> Result<()> {
    for command in commands.split(';').map(str::trim).filter(|c| !c.is_empty()) {
        let (name, arg) = command.split_once(' ').unwrap_or((command, ""));
        let done = values(ctx, name, arg)?
            || lists(ctx, name, arg)?
            || timers(ctx, name, arg)?
            || outputs(ctx, rec, name, arg)?
            || rest(ctx, name, arg)?;
        if !done {
            bail!("unknown command {name:?}");
        }
    }
    Ok(())
}

fn values(ctx: &mut Ctx, name: &str, arg: &str) -> Result<bool> {
    match name {
        "set" => {
            let v = Bounded::new(arg.as_bytes()).ok_or_else(|| Error::msg("set: more than 32 bytes"))?;
            effects::small.set(ctx, &v)?
        }
        "value" => match effects::small.get(ctx)? {
            Some(v) => say(ctx, format_args!("value {}", String::from_utf8_lossy(&v)))?,
            None => say(ctx, format_args!("no value"))?,
        },
        "unset" => effects::small.clear(ctx)?,
        "big" => effects::big.set(ctx, &vec![b'x'; arg.parse()?])?,
        "biglen" => match effects::big.get(ctx)? {
            Some(v) => say(ctx, format_args!("big {}", v.len()))?,
            None => say(ctx, format_args!("no big"))?,
        },
        _ => return Ok(false),
    }
    Ok(true)
}

fn lists(ctx: &mut Ctx, name: &str, arg: &str) -> Result<bool> {
    let mut all = Vec::new();
    match name {
        "put" => {
            let (k, v) = arg.split_once(' ').unwrap_or((arg, ""));
            effects::map.put(ctx, k, &v.to_string())?
        }
        "get" => match effects::map.get(ctx, arg)? {
            Some(v) => say(ctx, format_args!("{arg} = {v}"))?,
            None => say(ctx, format_args!("no {arg}"))?,
        },
        "del" => effects::map.remove(ctx, arg)?,
        "empty" => effects::map.clear(ctx)?,
        "scan" => {
            effects::map.scan_from(ctx, arg, |k, v| {
                all.push(format!("{k}={v}"));
                Ok(true)
            })?;
            say(ctx, format_args!("map {}", all.join(" ")))?
        }
        "append" => effects::list.append(ctx, &arg.to_string())?,
        "unlist" => effects::list.clear(ctx)?,
        "list" => {
            effects::list.for_each(ctx, |v| {
                all.push(v);
                Ok(())
            })?;
            say(ctx, format_args!("list {}", all.join(" ")))?
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn timers(ctx: &mut Ctx, name: &str, arg: &str) -> Result<bool> {
    let (at, label) = arg.split_once(' ').unwrap_or((arg, ""));
    match name {
        "timer" => ctx.set_timer(label, at.parse()?)?,
        "untimer" => ctx.delete_timer(label, at.parse()?)?,
        "ptimer" => ctx.set_timer_in(Domain::Processing, label, at.parse()?)?,
        "unptimer" => ctx.delete_timer_in(Domain::Processing, label, at.parse()?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn outputs(ctx: &mut Ctx, rec: Option<&Record>, name: &str, arg: &str) -> Result<bool> {
    match (name, rec) {
        ("out", _) => say(ctx, format_args!("{arg}"))?,
        ("side", _) => ctx.emit().to(effects::side).value(arg.as_bytes())?,
        ("large", _) => ctx.emit().value(&vec![b'y'; arg.parse()?])?,
        ("many", _) => {
            for i in 0..arg.parse::<u64>()? {
                say(ctx, format_args!("{i}"))?;
            }
        }
        ("forward", Some(rec)) => ctx.forward(rec)?,
        ("tombstone", _) => ctx.emit().op(Op::Delete).null()?,
        ("header", _) => {
            let (k, v) = arg.split_once(' ').unwrap_or((arg, ""));
            ctx.emit().headers(&[(k.as_bytes(), Some(v.as_bytes())), (b"null", None)]).value(b"headers")?
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn rest(ctx: &mut Ctx, name: &str, arg: &str) -> Result<bool> {
    match name {
        "log" => ctx.log(Level::Info, format_args!("{arg}")),
        "count" => {
            let (counter, n) = arg.split_once(' ').unwrap_or((arg, "1"));
            ctx.count(counter, n.parse()?)
        }
        "random" => {
            let (a, b) = (ctx.random_u64(), ctx.random_u64());
            say(ctx, format_args!("random {a:016x} {b:016x}"))?
        }
        "wm" => {
            let wm = ctx.watermark();
            say(ctx, format_args!("watermark {wm}"))?
        }
        "now" => {
            let now = ctx.processing_time();
            say(ctx, format_args!("now {now}"))?
        }
        "fail" => bail!("{arg}"),
        "trap" => panic!("trap on demand"),
        "spin" => spin(),
        "eat" => eat(),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Never comes back; the fuel ends it.
fn spin() {
    let never = 0u8;
    // A volatile read, so that the compiler cannot see that it never ends.
    while unsafe { core::ptr::read_volatile(&never) } == 0 {}
}

/// Takes memory until there is none.
fn eat() {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(vec![1; 1 << 20]);
        unsafe { core::ptr::read_volatile(&all[0][0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    fn send(h: &mut Harness, commands: &str) -> Vec<String> {
        h.send(Input::value(commands).key("k").time(7));
        h.texts()
    }

    #[test]
    fn states() {
        let mut h = Harness::new(&MODULE, "effects");
        assert_eq!(send(&mut h, "value; set abc; value; unset; value; set"), ["no value", "value abc", "no value"]);
        assert_eq!(send(&mut h, "value; biglen; big 70000; biglen"), ["value ", "no big", "big 70000"]);
        assert_eq!(
            send(&mut h, "put b 2; put a 1; put c 3; del a; get b; get a; scan; scan c"),
            ["b = 2", "no a", "map b=2 c=3", "map c=3"]
        );
        assert_eq!(send(&mut h, "append x; append y; list; unlist; list"), ["list x y", "list "]);
    }

    #[test]
    fn a_failed_record_leaves_nothing() {
        let mut h = Harness::new(&MODULE, "effects");
        send(&mut h, "set old; put a 1; timer 50 t; append x");
        let bad = "set new; put a 2; put b 3; untimer 50 t; timer 60 u; append y; empty; log l; count c 5; out o; large 300000; fail no";
        assert!(send(&mut h, bad).is_empty());
        assert_eq!(h.failures()[0].message, "no");
        assert_eq!((h.logs().len(), h.counter("c")), (0, 0));
        assert_eq!(send(&mut h, "value; scan; list"), ["value old", "map a=1", "list x"]);
        h.watermark(100);
        assert_eq!(h.texts(), ["fired 50 t at watermark 100"]);
    }

    #[test]
    fn timers_fire_in_rounds() {
        let mut h = Harness::new(&MODULE, "effects");
        send(&mut h, "timer 20 do timer 5 late; timer 10 do timer 15 between; timer 10 do timer 15 between; timer 30 gone; untimer 30 gone");
        h.watermark(100);
        let times: Vec<String> = h.texts().iter().map(|t| t.split(' ').nth(1).unwrap_or("").to_string()).collect();
        assert_eq!(times, ["10", "15", "20", "5"]);
        send(&mut h, "ptimer 1000 p");
        h.end();
        assert!(h.texts().is_empty());
        h.processing_time(1000);
        assert_eq!(h.outputs()[0].record.time, millrace::abi::NO_TIME);
    }

    #[test]
    fn outputs_larger_than_the_buffer_keep_their_place() {
        let commands = "out a; large 5000; out b; side s; large 9000; out c";
        let mut whole = Harness::new(&MODULE, "effects");
        let mut tight = Harness::new(&MODULE, "effects").output_space(8 << 10);
        let batch: Vec<Input> = (0..20).map(|i| Input::value(commands).key(format!("k{}", i % 3))).collect();
        whole.send_batch(&batch);
        tight.send_batch(&batch);
        let (a, b) = (whole.outputs(), tight.outputs());
        assert_eq!(a.len(), 120);
        assert_eq!(a, b);
    }
}
