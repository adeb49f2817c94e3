// Go compiles functions without a body, as behavior_test.go has, only beside an assembly file.
