//! A keyed function that does with timers what its records say, and what its rules say when a timer
//! fires: the `timers` operator of the conformance cases.
//!
//! A value is lines. Before an empty line stand the rules, which the key remembers; behind it commands,
//! which are run in order. A rule is a line `on event|processing [at T] [below T] [key HEX]`; the commands
//! behind it belong to it. A rule fits a timer of its clock with that time, an earlier one, of that key.
//!   register-event T, delete-event T, register-processing T, delete-processing T
//!   ...-relative D       the same at D after the time of the record or timer
//!   add N, clear         the key's counter
//!   emit JSON            {"emit":JSON,"watermark":W}
//! Each timer that fires gives {"domain","timer","watermark","processing_time","count"}, then its rules run.

use millrace::prelude::*;

millrace::module! {
    name: "timers",
    process timers keyed {
        on_record: on_record,
        on_timer: on_timer,
        states: {
            count: Value<i64>,
            rules: Value<String>,
        },
        timers: [event, processing],
    },
}

fn on_record(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let text = rec.text()?;
    let (rules, commands) = match text.strip_prefix('\n') {
        Some(commands) => ("", commands),
        None => text.split_once("\n\n").ok_or_else(|| Error::msg("no empty line behind the rules"))?,
    };
    if timers::rules.get(ctx)?.as_deref() != Some(rules) {
        timers::rules.set(ctx, &rules.to_string())?;
    }
    for command in commands.lines() {
        run(ctx, rec.time(), command)?;
    }
    Ok(())
}

fn on_timer(ctx: &mut Ctx, timer: &Timer) -> Result<()> {
    let (domain, at) = (name(timer.domain()), timer.time());
    let (watermark, now) = (ctx.watermark(), ctx.processing_time());
    let count = timers::count.get(ctx)?.unwrap_or(0);
    ctx.emit().text(format_args!(
        r#"{{"domain":"{domain}","timer":{at},"watermark":{watermark},"processing_time":{now},"count":{count}}}"#
    ))?;
    let rules = timers::rules.get(ctx)?.unwrap_or_default();
    let mut runs = false;
    for line in rules.lines() {
        match line.strip_prefix("on ") {
            Some(rule) => runs = fits(rule, timer)?,
            None if runs => run(ctx, at, line)?,
            None => {}
        }
    }
    Ok(())
}

fn name(domain: Domain) -> &'static str {
    match domain {
        Domain::Event => "event",
        Domain::Processing => "processing",
    }
}

fn fits(rule: &str, timer: &Timer) -> Result<bool> {
    let mut words = rule.split(' ');
    if words.next() != Some(name(timer.domain())) {
        return Ok(false);
    }
    while let Some(word) = words.next() {
        let arg = words.next().ok_or_else(|| Error::msg("a rule ends in the middle of a condition"))?;
        let fits = match word {
            "at" => timer.time() == arg.parse::<i64>()?,
            "below" => timer.time() < arg.parse::<i64>()?,
            "key" => hex(timer.key()) == arg,
            _ => bail!("unknown condition {word:?}"),
        };
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn run(ctx: &mut Ctx, base: i64, command: &str) -> Result<()> {
    let (verb, arg) = command.split_once(' ').unwrap_or((command, ""));
    match verb {
        "add" => {
            let n = timers::count.get(ctx)?.unwrap_or(0) + arg.parse::<i64>()?;
            timers::count.set(ctx, &n)
        }
        "clear" => timers::count.clear(ctx),
        "emit" => {
            let watermark = ctx.watermark();
            ctx.emit().text(format_args!(r#"{{"emit":{arg},"watermark":{watermark}}}"#))
        }
        _ => timer(ctx, base, verb, arg.parse()?),
    }
}

fn timer(ctx: &mut Ctx, base: i64, verb: &str, arg: i64) -> Result<()> {
    let (verb, at) = match verb.strip_suffix("-relative") {
        Some(v) => (v, base.wrapping_add(arg)),
        None => (verb, arg),
    };
    match verb {
        "register-event" => ctx.set_timer("", at),
        "delete-event" => ctx.delete_timer("", at),
        "register-processing" => ctx.set_timer_in(Domain::Processing, "", at),
        "delete-processing" => ctx.delete_timer_in(Domain::Processing, "", at),
        _ => bail!("unknown command {verb:?}"),
    }
}
