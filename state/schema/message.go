package schema

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/millrace-io/millrace/abi"
)

// message is the codec of a Protobuf message.
type message struct {
	d     protoreflect.MessageDescriptor
	types *dynamicpb.Types
}

func compileMessage(s *abi.Schema) (Codec, error) {
	d, files, err := descriptorOf(s)
	if err != nil {
		return nil, err
	}
	return message{d, dynamicpb.NewTypes(files)}, nil
}

// descriptorOf finds the message of a schema in its descriptor set.
func descriptorOf(s *abi.Schema) (protoreflect.MessageDescriptor, *protoregistry.Files, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(s.Descriptors, &set); err != nil {
		return nil, nil, fmt.Errorf("schema: descriptor set: %w", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, nil, fmt.Errorf("schema: descriptor set: %w", err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(s.Message))
	if err != nil {
		return nil, nil, fmt.Errorf("schema: message %q: %w", s.Message, err)
	}
	m, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, nil, fmt.Errorf("schema: %q is no message", s.Message)
	}
	return m, files, nil
}

// AppendJSON implements Codec: Protobuf's JSON mapping with the field names of the file.
func (c message) AppendJSON(dst, b []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(c.d)
	if err := (proto.UnmarshalOptions{Resolver: c.types}).Unmarshal(b, m); err != nil {
		return dst, bad("%w", err)
	}
	out, err := protojson.MarshalOptions{UseProtoNames: true, Resolver: c.types}.Marshal(m)
	if err != nil {
		return dst, bad("%w", err)
	}
	return document{}.AppendJSON(dst, out) // its white space differs from one process to the next
}

// Encode implements Codec.
func (c message) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	m := dynamicpb.NewMessage(c.d)
	if err := (protojson.UnmarshalOptions{Resolver: c.types}).Unmarshal(value, m); err != nil {
		return dst, bad("%w", err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return dst, bad("%w", err)
	}
	return append(dst, b...), nil
}
