from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


def load(x, y):
    scaler = StandardScaler()
    x_scaled = scaler.fit_transform(x)  # HIT fitted_before_split
    return train_test_split(x_scaled, y, test_size=0.2)
