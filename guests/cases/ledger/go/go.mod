module github.com/millrace-io/millrace/guests/cases/ledger/go

go 1.24

require github.com/millrace-io/millrace/sdk/go v0.1.0

replace github.com/millrace-io/millrace/sdk/go => ../../../../sdk/go
