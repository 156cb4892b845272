package spec

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/operators"
)

var storeShape = &shape{fields: []field{
	{name: "url", kind: kindString, required: true, doc: "s3://bucket/prefix, or a folder on another disk: file:///path, file:path beside this file. Snapshots are below it under the pipeline's name."},
	{name: "endpoint", kind: kindString, doc: "https://host:port of an S3-compatible server; http:// on this machine only. Default: AWS."},
	{name: "region", kind: kindString, doc: "Region of the bucket; default: AWS_REGION, else asked of the server."},
	{name: "credentials", kind: kindString, doc: "env (default): AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; file:PATH, as the AWS tools have it; role: that of the machine or pod."},
	{name: "encrypt", kind: kindStrings, doc: "Key of 32 bytes (hex, base64) that seals what is stored: env:NAME or file:PATH. Of several the first seals, all open."},
	{name: "sign", kind: kindStrings, doc: "Key that signs manifests and catalog, in the same way; what is not signed is refused then."},
	{name: "interval", kind: kindDuration, doc: "Time between the uploads of two checkpoints at least; savepoints and the last checkpoint go at once. Default 10s."},
	{name: "retain", kind: kindInt, min: 1, max: 10000, doc: "Checkpoints kept there; default: as many as here."},
}}

const storeInterval = 10 * time.Second

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	envForm    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// store reads where copies of snapshots go from the top object; nil: nowhere, or problems.
func (b *builder) store(top *object) *operators.StoreSettings {
	c := again(top, "checkpoint", checkpointShape)
	if c == nil {
		return nil
	}
	n, at := c.raw("store"), join(c.path, "store")
	if n == nil {
		return nil
	}
	if b.opts.Confine {
		b.problem(n.Line, at, "a pipeline of others does not say where its snapshots go", "remove it")
		return nil
	}
	o := &object{node: n, path: at, fields: map[string]*yaml.Node{"url": n}}
	name := at
	if n.Kind == yaml.MappingNode {
		o, name = again(c, "store", storeShape), join(at, "url")
	} else if c.fields["store"] == nil {
		return nil
	}
	s := &operators.StoreSettings{URL: o.text("url"), Endpoint: o.text("endpoint"), Region: o.text("region"),
		Interval: o.duration("interval", storeInterval), Retain: int(o.integer("retain", c.integer("retain", 3)))}
	if v := o.fields["url"]; v != nil {
		b.storeURL(s, v.Line, name)
	}
	s.Credentials = b.storeCredentials(o)
	s.Encrypt, s.Sign = b.keyRefs(o, "encrypt"), b.keyRefs(o, "sign")
	if s.Folder != "" {
		for _, f := range []string{"endpoint", "region", "credentials"} {
			if v := o.fields[f]; v != nil {
				b.problem(v.Line, join(at, f), "a folder has none", "remove it, or give a bucket: url: s3://bucket/prefix")
			}
		}
	}
	if v := o.fields["endpoint"]; v != nil {
		b.endpoint(v, join(at, "endpoint"))
	}
	return s
}

// again is the object under name with the fields that are right, although others of it are wrong: so that what
// is wrong between them is told at once with those.
func again(o *object, name string, s *shape) *object {
	if n := o.raw(name); n != nil {
		return new(reader).object(n, s, join(o.path, name))
	}
	return nil
}

// raw is the value of a field as it stands there, perhaps wrong; nil: none.
func (o *object) raw(name string) *yaml.Node {
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		if o.node.Content[i].Value == name {
			return o.node.Content[i+1]
		}
	}
	return nil
}

// storeURL takes the URL apart.
func (b *builder) storeURL(s *operators.StoreSettings, line int, at string) {
	const forms = "expected s3://bucket/prefix, file:///path or file:path"
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "s3" && u.Scheme != "file" {
		b.problem(line, at, fmt.Sprintf("%q is no place for snapshots, %s", clip(s.URL), forms), "")
		return
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		s.URL = ""
		b.problem(line, at, "a place for snapshots has no user, query or fragment, "+forms, "credentials: env, file:PATH or role")
		return
	}
	if u.Scheme == "file" {
		dir := u.Path
		if u.Opaque != "" {
			if dir, err = url.PathUnescape(u.Opaque); err != nil {
				dir = ""
			}
			dir = filepath.Join(b.opts.Dir, filepath.FromSlash(dir))
		}
		if u.Host != "" || dir == "" || dir == b.opts.Dir {
			b.problem(line, at, fmt.Sprintf("%q names no folder, %s", clip(s.URL), forms), "")
			return
		}
		s.Folder = filepath.Join(filepath.FromSlash(dir), b.g.Name)
		s.URL = "file://" + filepath.ToSlash(s.Folder)
		return
	}
	if !bucketForm.MatchString(u.Host) {
		b.problem(line, at, fmt.Sprintf("%q is no name of a bucket: 3 to 63 small letters, digits, dots and hyphens", clip(u.Host)), "")
		return
	}
	s.Bucket, s.Prefix = u.Host, strings.TrimPrefix(path.Join("/", u.Path, b.g.Name), "/")
	if strings.Contains("/"+u.Path+"/", "/../") || strings.Contains("/"+u.Path+"/", "/./") {
		b.problem(line, at, fmt.Sprintf("the prefix %q has . or .. in it", clip(u.Path)), "")
	}
	s.URL = "s3://" + s.Bucket + "/" + s.Prefix
}

// endpoint checks the URL of a server.
func (b *builder) endpoint(n *yaml.Node, at string) {
	u, err := url.Parse(n.Value)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		b.problem(n.Line, at, fmt.Sprintf("%q is no server, expected https://host or https://host:port", clip(n.Value)), "")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		b.problem(n.Line, at, fmt.Sprintf("http:// to %s would send snapshots in clear over a network", clip(u.Hostname())), "https://"+u.Host)
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (b *builder) storeCredentials(o *object) string {
	n := o.fields["credentials"]
	if n == nil {
		return operators.CredentialsEnv
	}
	at := join(o.path, "credentials")
	file, ok := strings.CutPrefix(n.Value, "file:")
	switch {
	case n.Value == operators.CredentialsEnv || n.Value == operators.CredentialsRole:
		return n.Value
	case ok && file != "":
		return "file:" + b.absolute(file)
	}
	// What stands there may be a secret: it is not repeated.
	b.problem(n.Line, at, "credentials are given by reference, expected env, role or file:PATH", "")
	return ""
}

// keyRefs reads references of keys.
func (b *builder) keyRefs(o *object, name string) (refs []string) {
	n := o.fields[name]
	if n == nil {
		return nil
	}
	list := n.Content
	if n.Kind == yaml.ScalarNode {
		list = []*yaml.Node{n}
	}
	seen := map[string]bool{}
	for i, v := range list {
		at := join(o.path, name)
		if len(list) > 1 {
			at = fmt.Sprintf("%s[%d]", at, i)
		}
		kind, where, _ := strings.Cut(v.Value, ":")
		switch {
		case kind == "env" && envForm.MatchString(where):
			refs = append(refs, v.Value)
		case kind == "file" && where != "":
			refs = append(refs, "file:"+b.absolute(where))
		default:
			// It may be the key itself: it is not repeated.
			b.problem(v.Line, at, "a key is given by reference, expected env:NAME or file:PATH", "")
			continue
		}
		if ref := refs[len(refs)-1]; seen[ref] {
			b.problem(v.Line, at, fmt.Sprintf("%s is there twice", clip(ref)), "remove it")
		} else {
			seen[ref] = true
		}
	}
	return refs
}

// absolute is a path relative to the pipeline file.
func (b *builder) absolute(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(b.opts.Dir, p)
}
