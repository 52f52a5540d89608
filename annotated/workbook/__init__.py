"""Write it yourself, station by station."""
