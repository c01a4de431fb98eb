;; Returns its input as its result. Its memory grows when the input needs it.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
      (local $pages i32)
      ;; The input goes to 4096, and there is only ever one.
      (local.set $pages (i32.sub
        (i32.shr_u (i32.add (local.get $size) (i32.const 69631)) (i32.const 16))
        (memory.size)))
      (if (i32.gt_s (local.get $pages) (i32.const 0))
        (then (if (i32.eq (memory.grow (local.get $pages)) (i32.const -1)) (then unreachable))))
      (i32.const 4096))
    (func $run (export "run") (param $text i32) (param $length i32) (result i32)
      (i32.store (i32.const 64) (i32.const 0)) ;; ok
      (i32.store (i32.const 68) (local.get $text))
      (i32.store (i32.const 72) (local.get $length))
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
