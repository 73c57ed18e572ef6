;; y = x_0 - x_1, refused where an input is outside -32767 .. 32767 (guest ABI 1, see ../ABI.md)
(module
  (memory (export "memory") 1 1)
  (func (export "sits_abi") (result i32) i32.const 1)
  (func (export "sits_input") (result i32) i32.const 64)
  (func (export "sits_input_count") (result i32) i32.const 2)
  (func (export "sits_output") (result i32) i32.const 72)
  (func (export "sits_output_count") (result i32) i32.const 1)
  (func $outside (param $x i32) (result i32)
    ;; x + 32767 as an unsigned number is at most 65534 exactly when x is inside
    (i32.gt_u (i32.add (local.get $x) (i32.const 32767)) (i32.const 65534)))
  (func (export "sits_infer") (result i32)
    (if (i32.or
          (call $outside (i32.load (i32.const 64)))
          (call $outside (i32.load (i32.const 68))))
      (then (return (i32.const 1))))
    (i32.store (i32.const 72)
      (i32.sub (i32.load (i32.const 64)) (i32.load (i32.const 68))))
    (i32.const 0)))
