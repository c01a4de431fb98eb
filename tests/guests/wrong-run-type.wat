;; A component whose `run` is of another type than a task's.
(component
  (core module $guest
    (func $run (export "run") (param i32) (result i32) (local.get 0))
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" u32) (result u32) (canon lift (core func $guest "run")))
)
