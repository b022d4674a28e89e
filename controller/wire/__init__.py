"""Wire formats: JSON in and out, and the reasons why a record is not accepted; pure."""
