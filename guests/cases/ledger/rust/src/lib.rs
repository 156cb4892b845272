//! Keeps everything in its own variables, as guest.c beside it says.

use millrace::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

millrace::module! {
    name: "ledger",
    snapshot: memory,
    save: save,
    load: load,
    process ledger keyed { on_record: add },
}

#[derive(Default)]
struct Entry {
    count: u64,
    xor: u64,
    at: Option<usize>, // of its last record in numbers
}

#[derive(Default)]
struct Ledger {
    entries: HashMap<String, Entry>,
    numbers: Vec<u64>, // of all records, in the order of their coming
}

thread_local! {
    static LEDGER: RefCell<Ledger> = RefCell::default();
}

/// A record's number stands behind the last space. One without spoils a counter of its key and then panics.
fn add(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let (key, value) = (rec.key_text()?, rec.value().unwrap_or(b""));
    let number = value.rsplit(|b| *b == b' ').next().unwrap_or(b"");
    LEDGER.with(|l| {
        let l = &mut *l.borrow_mut();
        if !l.entries.contains_key(key) {
            l.entries.insert(key.to_string(), Entry::default());
        }
        let e = l.entries.get_mut(key).expect("it was put in");
        e.count += 1;
        let n: u64 = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok()).expect("a number");
        e.xor ^= n;
        let was = e.at.map_or(0, |at| l.numbers[at]);
        e.at = Some(l.numbers.len());
        l.numbers.push(n);
        ctx.emit().json(|o| {
            o.str("key", key).uint("count", e.count).uint("n", n).uint("xor", e.xor).uint("was", was);
        })
    })
}

fn save(out: &mut Vec<u8>) {
    out.push(1);
    LEDGER.with(|l| {
        let l = l.borrow();
        for (key, e) in &l.entries {
            out.push(key.len() as u8);
            out.extend_from_slice(key.as_bytes());
            for v in [e.count, e.xor, e.at.map_or(0, |at| l.numbers[at])] {
                out.extend_from_slice(&v.to_le_bytes());
            }
        }
    });
}

fn load(stream: &[u8]) -> Result<()> {
    let mut rest = match stream.split_first() {
        Some((1, rest)) => rest,
        _ => bail!("the stream is of another version than 1"),
    };
    LEDGER.with(|l| {
        let l = &mut *l.borrow_mut();
        while let Some((&len, tail)) = rest.split_first() {
            let len = len as usize;
            if tail.len() < len + 24 {
                bail!("the stream is cut");
            }
            let key = std::str::from_utf8(&tail[..len])?;
            let number = |i: usize| u64::from_le_bytes(tail[len + 8 * i..len + 8 * i + 8].try_into().expect("8 bytes"));
            l.entries.insert(key.to_string(), Entry { count: number(0), xor: number(1), at: Some(l.numbers.len()) });
            l.numbers.push(number(2));
            rest = &tail[len + 24..];
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    #[test]
    fn counts_and_goes_over() {
        let mut h = Harness::new(&MODULE, "ledger");
        h.send_batch(&["a 5", "6", "b 7"].map(|v| Input::value(v).key(if v == "b 7" { "b" } else { "a" })));
        assert_eq!(h.texts()[1], r#"{"key":"a","count":2,"n":6,"xor":3,"was":5}"#);
        let mut stream = vec![];
        save(&mut stream);
        LEDGER.with(|l| *l.borrow_mut() = Ledger::default());
        load(&stream).expect("its own stream");
        h.send_batch(&[Input::value("a 1").key("a")]);
        assert_eq!(h.texts().last().unwrap(), r#"{"key":"a","count":3,"n":1,"xor":2,"was":6}"#);
        assert!(load(&stream[..stream.len() - 1]).is_err() && load(&[2]).is_err());
    }
}
