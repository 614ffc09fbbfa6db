//! Records with a field that Rust cannot spell, such as `type` or `match`.
//!
//! `spelled!` is `records!` with one more form of field, ``kind as "type": …``. It exists only for
//! the files that other programs wrote before us; a shape of our own picks another word.

macro_rules! spelled {
    ($($(#[doc = $about:literal])+ $name:ident { $( #[doc = $field_about:literal] $field:ident $(as $word:literal)? : $ty:ty ),* $(,)? })*) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
            pub struct $name { $( #[doc = $field_about] $(#[serde(rename = $word)])? pub $field: $ty, )* }

            impl $crate::types::Typed for $name {
                fn ty() -> $crate::types::Type {
                    $crate::catalogue::declare::record_type(stringify!($name), vec![$(
                        ($crate::catalogue::spelled::spelled!(@word $field $($word)?), $crate::types::Field {
                            ty: <$ty as $crate::types::Typed>::ty(),
                            required: <$ty as $crate::types::Typed>::required(),
                            about: $field_about,
                        }),
                    )*])
                }
            }
        )*
    };
    (@word $field:ident) => { stringify!($field) };
    (@word $field:ident $word:literal) => { $word };
}
pub(crate) use spelled;
