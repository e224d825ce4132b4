UPDATE orders SET total = total + 1 WHERE id % 2 = 0;
DELETE FROM orders WHERE id % 50 = 7;
INSERT INTO orders SELECT g, 'IT', 1, '2027-01-01', 'new' FROM generate_series(:first, :last) g;
