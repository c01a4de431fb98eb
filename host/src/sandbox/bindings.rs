//! The Rust face of the world that this version offers: `wit/task.wit` without checkpoint, effects and children.
//!
//! What a component imports beyond it is refused by name at upload, so that nobody waits for a call that never works.

wasmtime::component::bindgen!({
    path: "../wit",
    inline: "
        package atropos:host;
        world offered {
            use atropos:task/failures@0.1.0.{failure};
            import atropos:task/lifecycle@0.1.0;
            import atropos:task/context@0.1.0;
            import atropos:task/log@0.1.0;
            export run: func(input: string) -> result<string, failure>;
        }
    ",
    imports: {
        "atropos:task/lifecycle.sleep": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});

pub(super) use self::atropos::task::{context, lifecycle, log};
