package main

// mutants are the faults the crash run must notice.
var mutants = []mutant{}
