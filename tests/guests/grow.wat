;; Grows its memory page by page until that is refused, touches none of it, and returns how many pages it has.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    ;; ok(n), n in decimal.
    (func $ok_number (param $n i32) (result i32)
      (local $at i32)
      (local.set $at (i32.const 192))
      (loop $digits
        (local.set $at (i32.sub (local.get $at) (i32.const 1)))
        (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
        (local.set $n (i32.div_u (local.get $n) (i32.const 10)))
        (br_if $digits (local.get $n)))
      (i32.store (i32.const 64) (i32.const 0))
      (i32.store (i32.const 68) (local.get $at))
      (i32.store (i32.const 72) (i32.sub (i32.const 192) (local.get $at)))
      (i32.const 64))
    (func $run (export "run") (param i32 i32) (result i32)
      (loop $more
        (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
      (call $ok_number (memory.size)))
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
