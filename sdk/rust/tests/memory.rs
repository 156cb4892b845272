//! Modules whose variables are state: what they say of themselves, and the stream between two of them.

use millrace::__private::{describe, Instance, Stream};
use millrace::{bail, Result};

mod plain {
    use super::*;
    millrace::module! {
        name: "plain",
        snapshot: memory,
        process f keyed { on_record: nothing },
    }
}

mod both {
    use super::*;
    millrace::module! {
        name: "both",
        snapshot: memory,
        save: save,
        load: load,
        process f keyed { on_record: nothing },
    }
}

mod one {
    use super::*;
    millrace::module! {
        name: "one",
        snapshot: memory,
        load: load,
        process f keyed { on_record: nothing },
    }
}

fn nothing(_: &mut millrace::Ctx, _: &millrace::Record) {}

fn save(out: &mut Vec<u8>) {
    out.extend_from_slice(b"what it all means");
}

fn load(stream: &[u8]) -> Result<()> {
    if stream != b"what it all means" {
        bail!("another stream");
    }
    Ok(())
}

#[test]
fn is_described() {
    let text = |i: &Instance| {
        let json = describe("m", i, &[]);
        String::from_utf8(json.exact::<{ 16 << 10 }>()[..json.len].to_vec()).unwrap()
    };
    let head = |i| text(i).split("\"functions\"").next().unwrap().rsplit("\",").next().unwrap().to_string();
    assert_eq!(head(&Instance { memory: false, save: false, load: false }), "");
    assert_eq!(
        text(&Instance { memory: true, save: true, load: true })
            .matches("\"snapshot\":\"memory\",\"save\":true,\"load\":true,")
            .count(),
        1
    );
    let has = |m: &millrace::Module| (m.save.is_some(), m.load.is_some());
    assert_eq!(
        [has(&plain::MODULE), has(&both::MODULE), has(&one::MODULE)],
        [(false, false), (true, true), (false, true)]
    );
}

#[test]
fn goes_over_in_parts() {
    let (mut out, mut to) = (Stream::new(), Stream::new());
    let mut parts = vec![];
    loop {
        let mut buf = [0; 5];
        let n = out.save(save, &mut buf) as usize;
        if n == 0 {
            break;
        }
        parts.push(n);
        assert_eq!(to.load(load, &buf[..n]), 0);
    }
    assert_eq!(parts, [5, 5, 5, 2]);
    assert_eq!(to.load(load, &[]), 0);
}
