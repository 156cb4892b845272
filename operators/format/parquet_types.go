package format

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	pqformat "github.com/parquet-go/parquet-go/format"

	"github.com/millrace-io/millrace/abi"
)

type cellFunc = func(parquet.Value) (rowField, error)

// parquetCell makes the conversion from a column's type to a field type; an error if there is none that
// keeps the value exactly.
func parquetCell(from parquet.Type, to abi.FieldType, u Unit) (cellFunc, error) {
	var logical pqformat.LogicalTypeValue
	if l := from.LogicalType(); l != nil {
		logical = l.Value
	}
	kind := from.Kind()
	isInt := kind == parquet.Int32 || kind == parquet.Int64
	_, decimal := logical.(*pqformat.DecimalType)
	switch {
	case decimal:
	case to == abi.TypeTime:
		return timeCell(from, logical, u)
	case to == abi.TypeInt64 && isInt:
		return intCell(kind, logical), nil
	case to == abi.TypeFloat64 && kind == parquet.Double:
		return func(v parquet.Value) (rowField, error) { return rowField{bits: math.Float64bits(v.Double())}, nil }, nil
	case to == abi.TypeFloat64 && kind == parquet.Float:
		return func(v parquet.Value) (rowField, error) {
			return rowField{bits: math.Float64bits(float64(v.Float()))}, nil
		}, nil
	case to == abi.TypeFloat64 && kind == parquet.Int32:
		return func(v parquet.Value) (rowField, error) {
			return rowField{bits: math.Float64bits(float64(v.Int32()))}, nil
		}, nil
	case to == abi.TypeBool && kind == parquet.Boolean:
		return func(v parquet.Value) (rowField, error) {
			if v.Boolean() {
				return rowField{bits: 1}, nil
			}
			return rowField{}, nil
		}, nil
	case to == abi.TypeString && kind == parquet.ByteArray:
		return func(v parquet.Value) (rowField, error) {
			b := v.ByteArray()
			if !validText(b) {
				return rowField{}, errors.New("not UTF-8")
			}
			return rowField{b: b}, nil
		}, nil
	case to == abi.TypeBytes && (kind == parquet.ByteArray || kind == parquet.FixedLenByteArray):
		return func(v parquet.Value) (rowField, error) { return rowField{b: v.ByteArray()}, nil }, nil
	}
	return nil, fmt.Errorf("a column of type %s can't be read as %s", typeName(from), to)
}

func typeName(t parquet.Type) string {
	if l := t.LogicalType(); l != nil && l.Value != nil {
		return l.Value.String()
	}
	return t.Kind().String()
}

func intCell(kind parquet.Kind, logical pqformat.LogicalTypeValue) cellFunc {
	it, _ := logical.(*pqformat.IntType)
	unsigned := it != nil && !it.IsSigned
	switch {
	case kind == parquet.Int32 && unsigned:
		return func(v parquet.Value) (rowField, error) { return rowField{bits: uint64(v.Uint32())}, nil }
	case kind == parquet.Int32:
		return func(v parquet.Value) (rowField, error) { return rowField{bits: uint64(int64(v.Int32()))}, nil }
	case unsigned:
		return func(v parquet.Value) (rowField, error) {
			if v.Uint64() > math.MaxInt64 {
				return rowField{}, fmt.Errorf("%w: %d is beyond int64", errNumber, v.Uint64())
			}
			return rowField{bits: v.Uint64()}, nil
		}
	}
	return func(v parquet.Value) (rowField, error) { return rowField{bits: uint64(v.Int64())}, nil }
}

// timeCell converts to ms. A column with a time type knows its unit; plain integers count u.
func timeCell(from parquet.Type, logical pqformat.LogicalTypeValue, u Unit) (cellFunc, error) {
	if ts, ok := logical.(*pqformat.TimestampType); ok && ts.Unit.Value != nil {
		u = map[time.Duration]Unit{time.Millisecond: Millis, time.Microsecond: Micros, time.Nanosecond: Nanos}[ts.Unit.Value.Duration()]
	} else if c := from.ConvertedType(); c != nil {
		switch *c {
		case deprecated.TimestampMillis:
			u = Millis
		case deprecated.TimestampMicros:
			u = Micros
		}
	}
	_, date := logical.(*pqformat.DateType)
	switch kind := from.Kind(); {
	case date:
		return func(v parquet.Value) (rowField, error) {
			return rowField{bits: uint64(int64(v.Int32()) * 86_400_000)}, nil
		}, nil
	case kind == parquet.Int64 && u != RFC3339:
		return func(v parquet.Value) (rowField, error) {
			ms, err := u.ToMillis(v.Int64())
			return rowField{bits: uint64(ms)}, err
		}, nil
	case kind == parquet.Int32 && u != RFC3339:
		return func(v parquet.Value) (rowField, error) {
			ms, err := u.ToMillis(int64(v.Int32()))
			return rowField{bits: uint64(ms)}, err
		}, nil
	case kind == parquet.Int96:
		return func(v parquet.Value) (rowField, error) {
			const epoch = 2_440_588 // Julian day of 1970-01-01
			i := v.Int96()
			ns := int64(uint64(i[0]) | uint64(i[1])<<32)
			return rowField{bits: uint64((int64(i[2])-epoch)*86_400_000 + ns/1_000_000)}, nil
		}, nil
	case kind == parquet.ByteArray:
		return func(v parquet.Value) (rowField, error) {
			ms, err := ParseTime(v.ByteArray(), true, u)
			return rowField{bits: uint64(ms)}, err
		}, nil
	}
	return nil, fmt.Errorf("a column of type %s can't be read as timestamp", typeName(from))
}
