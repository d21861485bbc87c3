//! Enums whose variants are words: of Kubernetes, of AWS, of what users write and read.

/// An enum, and the word for each variant.
#[macro_export]
macro_rules! words {
    ($(#[$of:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:expr),* $(,)? }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$about])* $variant),* }

        impl $name {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word in its written form.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The one whose word this is.
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }
    };
}

pub use words;
