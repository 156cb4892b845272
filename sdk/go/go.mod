module github.com/millrace-io/millrace/sdk/go

go 1.24
