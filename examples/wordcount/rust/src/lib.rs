//! Running word count: `split` makes words of lines, `count` counts each word.

use millrace::prelude::*;

millrace::module! {
    name: "wordcount",
    flat_map split { on_record: split_line },
    process count keyed { on_record: count_word, states: { total: Value<u64> } },
}

/// One output per word, in lower case, keyed by it. Words are ASCII letters and digits, and whatever is
/// not ASCII.
fn split_line(ctx: &mut Ctx, line: &Record) -> Result<()> {
    for word in line.text()?.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
        let word = word.to_ascii_lowercase();
        ctx.emit().key(&word).value(word.as_bytes())?;
    }
    Ok(())
}

/// The word's count so far, each time it occurs.
fn count_word(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let word = rec.key_text()?;
    let n = count::total.get(ctx)?.unwrap_or(0) + 1;
    count::total.set(ctx, &n)?;
    ctx.emit().json(|o| {
        o.str("word", word).uint("count", n);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Harness, Input};

    #[test]
    fn splits_lines_into_words() {
        let mut h = Harness::new(&MODULE, "split");
        h.send(Input::value("To be, or nöt to BE"));
        assert_eq!(h.texts(), ["to", "be", "or", "nöt", "to", "be"]);
    }

    #[test]
    fn counts_each_word() {
        let mut h = Harness::new(&MODULE, "count");
        h.send_batch(&["to", "be", "to"].map(|w| Input::value(w).key(w)));
        assert_eq!(
            h.texts(),
            [r#"{"word":"to","count":1}"#, r#"{"word":"be","count":1}"#, r#"{"word":"to","count":2}"#]
        );
    }

    #[test]
    fn a_line_that_is_not_text_fails() {
        let mut h = Harness::new(&MODULE, "split");
        h.send(Input::value([0xff]));
        assert_eq!(h.failures()[0].message, "the value is not UTF-8");
        assert!(h.outputs().is_empty());
    }
}
