package ordered

// cursor walks the leaves of a tree in key order. Between the tree's opened and closed it stays valid
// whatever happens to the tree; otherwise until the next change.
type cursor struct {
	t     *tree
	path  [maxDepth]step
	depth int
	leaf  *page
	i     int
	reads int // leaves visited
}

// seek goes to the first entry with a key >= k.
func (c *cursor) seek(t *tree, k []byte) {
	c.t, c.depth, c.leaf, c.i = t, 0, nil, 0
	if t.root == 0 {
		return
	}
	p := t.page(t.root)
	id := t.root
	for !p.leaf {
		i := p.route(k)
		c.path[c.depth] = step{id, i}
		c.depth++
		id = p.child(i)
		p = t.page(id)
	}
	c.leaf = p
	c.i, _ = p.lower(k)
	c.reads++
	c.settle()
}

// settle moves on to the next leaf that has an entry.
func (c *cursor) settle() {
	for c.leaf != nil && c.i >= int(c.leaf.n) {
		c.leaf = nil
		for c.depth > 0 {
			s := &c.path[c.depth-1]
			if p := c.t.page(s.page); s.i < int(p.n) {
				s.i++
				c.first(p.child(s.i))
				break
			}
			c.depth--
		}
	}
}

// first goes down to the first leaf below a page.
func (c *cursor) first(id uint32) {
	p := c.t.page(id)
	for !p.leaf {
		c.path[c.depth] = step{id, 0}
		c.depth++
		id = p.left
		p = c.t.page(id)
	}
	c.leaf, c.i = p, 0
	c.reads++
}

func (c *cursor) valid() bool { return c.leaf != nil }
func (c *cursor) next()       { c.i++; c.settle() }
func (c *cursor) cell() *cell { return c.leaf.cell(c.i) }
