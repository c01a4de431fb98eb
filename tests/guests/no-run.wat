;; A component, but no task: it exports something, and no `run`.
(component
  (core module $guest
    (func $walk (export "walk") (result i32) (i32.const 1))
  )
  (core instance $guest (instantiate $guest))
  (func (export "walk") (result u32) (canon lift (core func $guest "walk")))
)
