-- A branch's copies are found by their place; an index of their own cost every store a page.
DROP INDEX record_copies;
