//! How the bytes of state are to be read: for people who look into a snapshot, and for a check of changes.

/// A description of bytes. It costs nothing at run time: it is in the module's descriptor alone.
#[derive(Clone, Copy, Debug)]
pub enum Schema {
    /// Not described.
    Unknown,
    /// A type by its name in the ABI: u64, i64, f64, bool, utf8, json, key_u64 ...
    Type(&'static str),
    /// So many bytes; 0: any number.
    Bytes(usize),
    /// Fields of fixed size back to back.
    Struct(&'static [(&'static str, Schema)]),
}

impl Schema {
    /// Whether all of it is described.
    pub const fn known(&self) -> bool {
        match self {
            Schema::Unknown => false,
            Schema::Type(_) | Schema::Bytes(_) => true,
            Schema::Struct(fields) => {
                let mut i = 0;
                while i < fields.len() {
                    if !fields[i].1.known() {
                        return false;
                    }
                    i += 1;
                }
                true
            }
        }
    }
}
