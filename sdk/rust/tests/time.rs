//! What functions say of time: how long states live, and the watermark of a source.

use millrace::prelude::*;
use millrace::testing::{Harness, Input};

millrace::module! {
    name: "time",
    process visits keyed {
        on_record: visit,
        states: {
            seen: Value<u64> = Ttl::hours(2_000),
            cart: Map<str, u64> = Ttl::minutes(30).processing_time().refresh_on_read(),
            total: Value<u64>,
        },
    },
    watermark marks { on_record: marks },
}

fn visit(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let n = visits::seen.get(ctx)?.unwrap_or(0) + 1;
    visits::seen.set(ctx, &n)?;
    visits::total.set(ctx, &n)?;
    visits::cart.put(ctx, rec.text()?, &n)
}

fn marks(_: &mut Ctx, rec: &Record) -> Result<Option<i64>> {
    match rec.text()? {
        "none" => Ok(None),
        "bad" => bail!("bad"),
        "time" => Ok(Some(rec.time())),
        n => Ok(Some(n.parse()?)),
    }
}

#[test]
fn the_descriptor_says_how_long_states_live() {
    let json = millrace::__private::describe("time", &PLAIN, &[visits_desc()]);
    let text = String::from_utf8(json.exact::<4096>()[..json.len].to_vec()).unwrap();
    for part in [
        r#""name":"seen","kind":"value","max_bytes":8,"ttl":{"ms":7200000000}"#,
        r#""ttl":{"ms":1800000,"domain":"processing","refresh":"read"},"schema":{"type":"u64"},"key_schema":{"type":"utf8"}"#,
        r#"{"name":"total","kind":"value","max_bytes":8,"schema":{"type":"u64"}}"#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

fn visits_desc() -> millrace::FunctionDesc {
    MODULE.functions[0].desc
}

#[test]
fn a_watermark_function_answers_for_each_record() {
    let mut h = Harness::new(&MODULE, "marks");
    let records = [
        Input::value("5").key("k"),
        Input::value("none"),
        Input::value("bad"),
        Input::value("time").time(-7),
        Input::value("9223372036854775806"),
    ];
    assert_eq!(h.watermarks(&records), [Some(5), None, None, Some(-7), Some(i64::MAX - 1)]);
    assert_eq!(h.failures().len(), 1);
    assert!(h.watermarks(&[]).is_empty());
}

#[test]
fn small_output_buffers_make_it_yield() {
    let records: Vec<Input> = (0..500).map(|i| Input::value(i.to_string())).collect();
    let mut h = Harness::new(&MODULE, "marks").output_space(8 << 10);
    assert_eq!(h.watermarks(&records), (0..500).map(Some).collect::<Vec<_>>());
}

const PLAIN: millrace::__private::Instance = millrace::__private::Instance { memory: false, save: false, load: false };
