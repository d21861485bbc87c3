//! Enums whose variants have fixed names in Kubernetes, in AWS or for users.

/// Defines an enum with a fixed name for each variant.
#[macro_export]
macro_rules! words {
    ($(#[$of:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:expr),* $(,)? }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$about])* $variant),* }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name of the variant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The variant with this name.
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }
    };
}

pub use words;
